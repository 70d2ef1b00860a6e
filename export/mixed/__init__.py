"""The choice of a form for each matrix of a bundle: fp32, or integers of 8 or 4 bits."""
