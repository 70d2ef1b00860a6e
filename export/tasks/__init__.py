"""Export of language models and classifiers: traced graphs, ONNX files, proof, bundle."""
