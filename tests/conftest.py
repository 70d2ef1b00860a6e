"""What all tests share."""

import gc

# Tests trace and lower graphs by the dozen, which make millions of objects that stay as long as fixtures do: with
# Python's own first threshold, 700, a sixth of their time is spent on looking for cycles.
gc.set_threshold(50_000, 20, 50)
