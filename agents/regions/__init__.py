"""Region policies: networks that propose which regions of a plan to move, and the search that prices them."""
