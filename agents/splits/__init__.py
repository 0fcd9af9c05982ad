"""Split policies: networks that propose which operators to split in which parts, and the search that prices them."""
