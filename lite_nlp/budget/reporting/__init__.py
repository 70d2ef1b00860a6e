"""Budget reports: tables, charts, pages, and the papers' figures beside the computed ones."""
