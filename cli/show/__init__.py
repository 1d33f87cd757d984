"""What commands show: lines, tables, films."""
