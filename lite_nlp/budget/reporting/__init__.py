"""Reports of budgets and of finished models as tables, JSON and HTML pages; comparison with published figures."""
