//! A finding: a value, what is needed of it, a verdict, what to type, and how many connections it allows.

/// What the node is to hold.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub connections: u64,
    pub shards: u64,
    /// Connections are encrypted in this process.
    pub tls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Ok,
    Warn,
    Fail,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub struct Finding {
    pub name: &'static str,
    /// An explanation for readers who do not know the name.
    pub about: &'static str,
    pub value: String,
    pub needed: String,
    pub status: Status,
    /// What to type.
    pub fix: Option<String>,
    /// Connections that are possible with the value as it is.
    pub ceiling: Option<u64>,
    pub note: Option<String>,
}

impl Finding {
    pub fn new(name: &'static str, about: &'static str) -> Finding {
        Finding {
            name,
            about,
            value: String::new(),
            needed: String::new(),
            status: Status::Ok,
            fix: None,
            ceiling: None,
            note: None,
        }
    }

    pub fn value(mut self, value: impl ToString) -> Finding {
        self.value = value.to_string();
        self
    }

    pub fn needed(mut self, needed: impl ToString) -> Finding {
        self.needed = needed.to_string();
        self
    }

    pub fn ceiling(mut self, connections: u64) -> Finding {
        self.ceiling = Some(connections);
        self
    }

    pub fn note(mut self, note: impl ToString) -> Finding {
        self.note = Some(note.to_string());
        self
    }

    pub fn warn(self, fix: impl ToString) -> Finding {
        self.judged(Status::Warn, fix)
    }

    pub fn fail(self, fix: impl ToString) -> Finding {
        self.judged(Status::Fail, fix)
    }

    /// The file is missing from the snapshot, or its words are not understood.
    pub fn unknown(self, path: &str) -> Finding {
        self.value("unknown")
            .warn(format!("cat {path}"))
            .note("the snapshot does not tell")
    }

    pub fn judged(mut self, status: Status, fix: impl ToString) -> Finding {
        self.status = status;
        self.fix = Some(fix.to_string());
        self
    }
}
