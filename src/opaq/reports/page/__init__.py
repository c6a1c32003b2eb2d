"""The page of a report: templates, style and script. The data of a report come in, one HTML file goes out.

Nothing in it is loaded from elsewhere: a report opens offline. Imports: jinja2.
"""
