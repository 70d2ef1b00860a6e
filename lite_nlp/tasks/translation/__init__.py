"""Translation: training, scores, calibration."""
