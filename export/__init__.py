"""Export to ONNX and ExecuTorch, and the bundle that carries both."""
