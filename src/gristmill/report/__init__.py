"""What a person sees in a browser: pages that are one file, fetch nothing, and print.

In: figures, and texts of documents, none of them trusted.
Out: HTML that opens from a folder, from a server, or in a mail.
Promise: nothing that a document, a path or a file holds runs, is fetched, or breaks the page.
"""
