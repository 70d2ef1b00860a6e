"""Tasks: what a model is trained for, and how it is trained, scored and compressed for that."""
