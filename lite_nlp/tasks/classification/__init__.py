"""Text classification: training, predictions, scores, calibration."""
