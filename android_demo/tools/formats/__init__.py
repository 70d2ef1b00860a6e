"""File formats: zip archives, resource tables, class files, serialized Java objects, ELF, arm64 code."""
