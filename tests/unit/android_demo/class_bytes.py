"""Writes Java class files for tests, byte by byte."""

import struct


def class_bytes(
    name: str,
    *,
    parent: str = "java/lang/Object",
    interfaces: tuple[str, ...] = (),
    fields: tuple[tuple[str, str, int], ...] = (),
    methods: tuple[tuple[str, str, int], ...] = (),
    uses: tuple[tuple[str, str, str], ...] = (),
    names: tuple[str, ...] = (),
    invoke_dynamic: bool = False,
) -> bytes:
    """A class with members of (name, descriptor, access), and uses of (owner, name, descriptor) in its constants."""
    constants: list[bytes] = []

    def add(constant: bytes) -> int:
        if constant not in constants:
            constants.append(constant)
            if constant[0] in (5, 6):
                constants.append(b"")
        return constants.index(constant) + 1

    def text(value: str) -> int:
        encoded = value.encode()
        return add(struct.pack(">BH", 1, len(encoded)) + encoded)

    def named(value: str) -> int:
        return add(struct.pack(">BH", 7, text(value)))

    add(struct.pack(">Bq", 5, 7))  # a long takes two places
    this, above, over = named(name), named(parent), [named(one) for one in interfaces]
    for one in names:
        named(one)
    for owner, member, descriptor in uses:
        pair = add(struct.pack(">BHH", 12, text(member), text(descriptor)))
        add(struct.pack(">BHH", 10 if descriptor.startswith("(") else 9, named(owner), pair))
    if invoke_dynamic:
        add(struct.pack(">BHH", 18, 0, add(struct.pack(">BHH", 12, text("run"), text("()V")))))
    tables = []
    for members in (fields, methods):
        packed = [struct.pack(">HHHH", access, text(n), text(d), 1) for n, d, access in members]
        attribute = struct.pack(">HI", text("Synthetic"), 3) + b"abc"
        tables.append(struct.pack(">H", len(members)) + b"".join(one + attribute for one in packed))
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 51, len(constants) + 1) + b"".join(constants)
    head += struct.pack(">HHHH", 0x21, this, above, len(over)) + struct.pack(f">{len(over)}H", *over)
    return head + tables[0] + tables[1] + struct.pack(">H", 0)
