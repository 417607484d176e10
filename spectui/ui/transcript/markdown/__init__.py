"""Lays a finished reply out as text: headings, lists, tables, highlighted code. No widgets."""
