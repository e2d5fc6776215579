"""The words that the shipped tables are made of."""

from __future__ import annotations

__all__ = [
    "BOARDS",
    "CHAT",
    "COMPANIES",
    "EVENTS",
    "FIRST_NAMES",
    "GREETINGS",
    "LAST_NAMES",
    "MEETING_NEWS",
    "NOTES",
    "STAFF",
    "TASK_NEWS",
]

STAFF = (
    "Mara Lindqvist",
    "Tomas Okafor",
    "Ines Carvalho",
    "Yuto Hayashi",
    "Priya Raman",
    "Leon Fischer",
    "Salma Haddad",
    "Oskar Nowak",
    "Bea Castellano",
    "Dalia Mizrahi",
    "Finn Connell",
    "Hana Novakova",
    "Idris Bello",
    "Joana Ribeiro",
    "Kenji Mori",
    "Lucia Ferrari",
    "Milan Kovac",
    "Nadia Elamin",
    "Pavel Sokolov",
    "Ruth Adeyemi",
)

PAGES = ("checkout", "account page", "help centre", "dashboard", "sign-up form", "newsletter page")

BOARDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Back end": (
        (
            "Speed up the {}",
            "Write tests for the {}",
            "Move the {} to the new database",
            "Fix time-outs in the {}",
            "Log errors of the {}",
        ),
        ("order import", "price service", "login", "invoice export", "search index", "webhook queue"),
    ),
    "Front end": (
        (
            "Make the {} work on phones",
            "Add keyboard shortcuts to the {}",
            "Repair the layout of the {}",
            "Translate the {}",
            "Show errors on the {}",
        ),
        PAGES,
    ),
    "Design": (
        ("Draw icons for the {}", "Choose colours for the {}", "Sketch the {}", "Try the {} with users"),
        PAGES,
    ),
}
"""Jobs and what they are done to, by board."""

EVENTS = (
    "Budget review",
    "Sprint planning",
    "Security briefing",
    "Hiring round",
    "Office move",
    "Roadmap workshop",
    "Support handover",
    "Design critique",
    "Sales forecast",
    "Year-end closing",
    "Retrospective",
    "Supplier call",
    "Privacy training",
    "Release check",
    "Pricing debate",
    "First-aid course",
    "Customer panel",
    "Data quality circle",
    "Mentoring hour",
    "Board preparation",
    "Accessibility clinic",
    "Incident rehearsal",
    "Partner breakfast",
    "Contract reading",
)

GREETINGS = ("Hi", "Hello", "Dear", "Good morning")

TASK_NEWS = (
    ("Done: {}", "'{}' is finished. Could you look it over before Thursday?"),
    ("Question about '{}'", "Who decides on '{}' when we disagree? I would rather ask than guess."),
    ("Stuck: {}", "I am stuck with '{}': the test server is down again. Can you find me another one?"),
    ("{}: half way", "Half of '{}' is done. The second half is the harder one, so do not wait for it."),
    ("New: {}", "I have taken over '{}'. Is there anything written about it?"),
    ("{} takes longer", "'{}' takes two days more than planned. Shall I drop something else?"),
)

MEETING_NEWS = (
    ("Agenda: {}", "Here is what I would like to talk about in the {}: money, people, dates."),
    ("Notes of the {}", "My notes of the {} are in the shared folder. Please add what I forgot."),
    ("{}: another day?", "The {} clashes with a visit to the dentist. Is another day possible?"),
    ("Guest at the {}", "May I bring a guest to the {}? She has done all this before."),
    ("Before the {}", "Please read the figures before the {}. It saves us half an hour."),
    ("Thanks for the {}", "Thanks for the {}. It was short, and we know what to do next."),
)

CHAT = (
    ("Lunch", "A few of us try the new noodle place on Friday. Are you coming?"),
    ("Coffee machine", "The coffee machine on the second floor leaks again. I have called the service."),
    ("Keys", "I found a bunch of keys in the meeting room. Yours?"),
    ("Day off", "I take Monday off. My phone will be in a drawer."),
    ("Parking", "The garage is closed next week. The lot behind the library is free."),
    ("Birthday", "We collect for a birthday. The envelope is on my desk."),
)

FIRST_NAMES = (
    "Alba",
    "Bram",
    "Cleo",
    "Dov",
    "Elin",
    "Farid",
    "Greta",
    "Hugo",
    "Ivy",
    "Jonas",
    "Kira",
    "Lars",
    "Mina",
    "Noor",
    "Otto",
    "Pia",
    "Quim",
    "Rosa",
    "Sven",
    "Tara",
)

LAST_NAMES = (
    "Amsel",
    "Birk",
    "Corvin",
    "Dorn",
    "Eckert",
    "Falk",
    "Grau",
    "Hollis",
    "Ilves",
    "Jarvi",
    "Kranz",
    "Lund",
    "Marsh",
    "Nilsen",
    "Oriel",
    "Pask",
)

COMPANIES = (
    "amberfield",
    "brightloom",
    "cedarworks",
    "deltaforge",
    "evenkeel",
    "fernhill",
    "granitebay",
    "harborlight",
    "inkwell",
    "juniper",
    "kestrel",
    "larkspur",
    "millpond",
    "northquay",
    "oakline",
    "pinecrest",
)

NOTES = (
    "Asked for a quote.",
    "Saw the demo.",
    "Did not answer the phone.",
    "Wants to talk to a reference.",
    "Met at the fair.",
    "Has a new buyer.",
    "Compares us with two others.",
)
