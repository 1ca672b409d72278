"""Index tables: rows kept as search splits, a log in ``_transaction_log``, and searches over both."""
