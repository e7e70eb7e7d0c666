"""One module a kind of source; each has `parse(blobs)`, which yields documents."""
