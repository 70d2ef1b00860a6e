"""The ``.lnlp`` container: layout, encodings of tensors, entropy coding."""
