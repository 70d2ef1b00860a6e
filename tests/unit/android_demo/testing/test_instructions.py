"""Instructions counted in qemu's log, and what they may be."""

import pytest

from tools.base.errors import BuildError
from tools.testing.instructions import check_counts, count_blocks

LOG = b"""----------------
IN:
0x7f07b718ae40:  d503201f  nop
0x7f07b718ae44:  d280001d  movz     x29, #0
0x7f07b718ae50:  97ffee80  bl       #0x7f07b7186850

Trace 0: 0x7f07a8000100 [00001001/00007f07b718ae40/00000001/00000200]
----------------
IN: some_function
0x7f07b7186850:  a9b27bfd  stp      x29, x30, [sp, #-0xe0]!

Trace 0: 0x7f07a8000240 [00001001/00007f07b7186850/00000001/00000200] some_function
Trace 0: 0x7f07a8000240 [00001001/00007f07b7186850/00000001/00000200] some_function
Trace 0: 0x7f07a8000100 [00001001/00007f07b718ae40/00000001/00000200]
"""


def test_a_block_counts_as_often_as_it_runs() -> None:
    assert count_blocks(LOG.splitlines(keepends=True)) == 2 * 3 + 2 * 1


def test_a_block_that_the_log_does_not_have_is_an_error() -> None:
    lines = LOG.replace(b"7186850/", b"7186854/").splitlines(keepends=True)
    with pytest.raises(BuildError, match="expected each block before it runs, found 1 that"):
        count_blocks(lines)


def test_int8_must_take_about_as_many_instructions() -> None:
    check_counts(fp32=2_000_000, int8=3_000_000)
    with pytest.raises(BuildError, match=r"expected at most 1\.5 times the 2,000,000 instructions .* found 3,000,001"):
        check_counts(fp32=2_000_000, int8=3_000_001)
