"""Mechanisms on PySpark: sessions, scans and writes. The only package that touches Py4J."""
