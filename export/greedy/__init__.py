"""Greedy search as one ONNX graph: the encoder, and the decoder step in a loop."""
