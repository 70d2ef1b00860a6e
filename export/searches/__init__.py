"""Search in ONNX graphs: greedily in one graph, and the step of a beam search with the ranking of what may follow."""
