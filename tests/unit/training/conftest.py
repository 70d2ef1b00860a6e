import pytest
from accelerate import Accelerator

from lite_nlp.training.processes import start_processes


@pytest.fixture(scope="session")
def accelerator() -> Accelerator:
    return start_processes()
