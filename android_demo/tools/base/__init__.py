"""Foundation of the build: paths, processes, downloads, Debian packages, and cached steps."""
