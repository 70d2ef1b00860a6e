"""What the test on an emulated processor lets pass."""

import pytest

from tools.base.errors import BuildError
from tools.testing.board import Agreement, check_agreement


def test_fp32_must_be_the_same_text() -> None:
    check_agreement(Agreement("fp32", lines=200, same=200, score=40.0, score_here=40.0))
    with pytest.raises(BuildError, match=r"fp32 on the emulated processor: expected 200 of 200 texts .* found 199"):
        check_agreement(Agreement("fp32", lines=200, same=199, score=40.0, score_here=40.0))


def test_int8_must_agree_mostly_and_keep_the_quality() -> None:
    check_agreement(Agreement("int8", lines=200, same=160, score=39.1, score_here=40.0))
    with pytest.raises(BuildError, match="expected 160 of 200 texts as on this machine, found 159"):
        check_agreement(Agreement("int8", lines=200, same=159, score=40.0, score_here=40.0))
    with pytest.raises(BuildError, match=r"expected BLEU 40\.00 or at most 1\.0 less, found 38\.90"):
        check_agreement(Agreement("int8", lines=200, same=200, score=38.9, score_here=40.0))
