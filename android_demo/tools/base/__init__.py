"""Ground of the build: paths, programs, downloads, and steps that are skipped while their inputs are the same."""
