"""Results -> what people look at: pages as text, on a terminal and as HTML, figures, and one offline report.

Results come in, or their JSON, which is read into them first; text, bytes and matplotlib figures go out.
Imports: results, so all but paper and cli.
"""
