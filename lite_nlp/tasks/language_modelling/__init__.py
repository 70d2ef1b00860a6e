"""Language modelling: training, scores, calibration."""
