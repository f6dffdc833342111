//! Planners with a mistake in them, to show that the search finds it.
