"""What becomes of a finished evaluation: its results, its report and its verdict."""
