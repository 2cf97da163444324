"""The report of one run: one HTML page that loads nothing from elsewhere. Each module prepares a part of the page.

A new section is a module in this package and a template in `reporting/templates`. The module `page` passes the section
to the page's template.
"""
