"""Reading and writing of every kind of MODEL: directory, ``.lnlp`` container, bundle, shipped model."""
