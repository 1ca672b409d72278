"""The tables as users hold them: facades without flesh, each method one function of ``commands``."""
