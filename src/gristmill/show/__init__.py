"""What a person sees in a terminal: tables, the funnel, a decoded batch. Programs get the same figures as JSON.

In: figures, and the reports of commands.
Out: text on stdout that fits the screen, or one JSON value.
Promise: nothing that a document, a path or a file holds can steer the terminal.
"""
