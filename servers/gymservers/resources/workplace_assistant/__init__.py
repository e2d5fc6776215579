"""workplace_assistant: an office with mail, calendar, analytics, tasks and customers, to be put in order."""
