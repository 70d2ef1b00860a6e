"""Calls that are linked at run time."""

from tools.package.shrink import find_linked_calls


def test_calls_linked_while_running_are_found() -> None:
    plain = "0001: invoke-virtual {v0}, La/B;.run:()V // method@0001\n"
    linked = "  0002: fc10 |0000: invoke-custom {v0}, call_site@0000"
    assert find_linked_calls(plain) == []
    assert find_linked_calls(plain + linked) == [linked.strip()]
