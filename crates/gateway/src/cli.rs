//! The command line: `sockeye [serve]`, `sockeye init`, `sockeye config …`, `sockeye token …`, `sockeye plan …`,
//! `sockeye bench …`, `sockeye doctor`.
//! Flags are settings of the highest layer; their values are checked with the rest of the
//! configuration.

use crate::calls::{DisconnectArgs, EmitArgs, RoomsArgs, SocketsArgs};
use crate::config::{Flag, Request};
use crate::doctor::Order;
use crate::history_calls::{ExportArgs, ForgetArgs, HistoryCall, ImportArgs, ShowArgs, VerifyArgs};
use crate::init::InitArgs;
use crate::inside_calls::{SessionsArgs, TopArgs};
use crate::nodes::NodesArgs;
use crate::record_calls::RecordArgs;
use crate::replay_calls::ReplayArgs;
use crate::supervise::SuperviseArgs;
use crate::token::TokenArgs;
use crate::trace_calls::TraceArgs;
use crate::upgrade::UpgradeArgs;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// With commit, its day and the target, as far as they are known.
pub const VERSION: &str = env!("SOCKEYE_VERSION");

const EXAMPLES: &str = "Examples:
  sockeye                                  serve on port 3000 with the chat page
  sockeye init                             write ten lines of configuration to start from
  sockeye --config /etc/sockeye.toml       serve what a file says
  sockeye config check                     find every mistake in sockeye.toml
  sockeye config reference --toml          every key, as a commented file
  sockeye doctor                           how many connections this machine allows
  sockeye bench run chat-10k --scale 0.1   a load test";

/// Real-time gateway: Socket.IO, plain WebSocket and long-polling on one port.
#[derive(Debug, Parser)]
#[command(
    name = "sockeye",
    version = VERSION,
    after_help = EXAMPLES
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<CommandArgs>,
    #[command(flatten)]
    serve: Overrides,
}

#[derive(Debug, Subcommand)]
enum CommandArgs {
    /// Serve until SIGTERM or SIGINT (the default).
    Serve(Overrides),
    Init(InitArgs),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(ConfigArgs),
    /// Ask the gateway of this configuration whether it lives; ends with 0 if it does, else with 1.
    Health {
        /// Ask whether new clients should be sent to it.
        #[arg(long)]
        ready: bool,
        #[command(flatten)]
        asked: Asked,
    },
    /// Tell what this machine or container allows and what to change for a number of connections.
    ///
    /// Ends with 0 if all is well, 1 with warnings, 2 if something will fail.
    Doctor(DoctorArgs),
    Token(Box<TokenArgs>),
    /// Nodes, memory, Redis, bandwidth and cost for so many users; advice on transports.
    Plan(Box<crate::plan::PlanArgs>),
    /// Load tests: scenarios, comparisons, reports. Hands over to the program `sockeye-bench`.
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Stand before a running Socket.IO server, and compare a gateway with it. Hands over to the program `sockeye-shadow`.
    #[command(disable_help_flag = true)]
    Shadow {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    Emit {
        #[command(flatten)]
        args: Box<EmitArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Sockets {
        #[command(flatten)]
        args: Box<SocketsArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Sessions {
        #[command(flatten)]
        args: Box<SessionsArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Trace {
        #[command(flatten)]
        args: Box<TraceArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Record {
        #[command(flatten)]
        args: Box<RecordArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Replay(Box<ReplayArgs>),
    Top {
        #[command(flatten)]
        args: TopArgs,
        #[command(flatten)]
        asked: Asked,
    },
    Rooms {
        #[command(flatten)]
        args: Box<RoomsArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    /// Read what rooms said, or delete it.
    #[command(subcommand)]
    History(HistoryCommand),
    Disconnect {
        #[command(flatten)]
        args: Box<DisconnectArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Nodes {
        #[command(flatten)]
        args: Box<NodesArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Upgrade {
        #[command(flatten)]
        args: UpgradeArgs,
        #[command(flatten)]
        asked: Asked,
    },
    Supervise(SuperviseArgs),
    /// Print a completion script: `sockeye completions bash > /etc/bash_completion.d/sockeye`.
    Completions {
        /// The shell it is for.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write a page for each command into a folder.
    Man {
        /// The folder, such as `/usr/local/share/man/man1`.
        folder: Option<PathBuf>,
    },
    /// Make an API key for the operators' listener, the server API or a backend's workers.
    ApiKey {
        /// Name of its user, for the log.
        name: String,
        /// Allow only this: a scope (emit, members, disconnect, read, history, forget, operate, trace, trace:payload) or a namespace, such as `/chat`; may be given several
        /// times. Without it, the key allows everything.
        #[arg(long, value_name = "SCOPE")]
        allow: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigArgs {
    /// Report every problem; ends with 1 if there is one.
    Check {
        #[command(flatten)]
        overrides: Overrides,
        /// Also connect to what the configuration names: Redis.
        #[arg(long)]
        online: bool,
    },
    /// Print every setting with its source.
    Show {
        #[command(flatten)]
        overrides: Overrides,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the reference of all keys.
    Reference {
        /// As a commented configuration file.
        #[arg(long)]
        toml: bool,
    },
}

#[derive(Debug, Subcommand)]
enum HistoryCommand {
    Show {
        #[command(flatten)]
        args: Box<ShowArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Export {
        #[command(flatten)]
        args: Box<ExportArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Import {
        #[command(flatten)]
        args: Box<ImportArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Verify {
        #[command(flatten)]
        args: Box<VerifyArgs>,
        #[command(flatten)]
        asked: Asked,
    },
    Forget {
        #[command(flatten)]
        args: Box<ForgetArgs>,
        #[command(flatten)]
        asked: Asked,
    },
}

impl HistoryCommand {
    fn parts(self) -> (HistoryCall, Asked) {
        match self {
            Self::Show { args, asked } => (HistoryCall::Show(args), asked),
            Self::Export { args, asked } => (HistoryCall::Export(args), asked),
            Self::Import { args, asked } => (HistoryCall::Import(args), asked),
            Self::Verify { args, asked } => (HistoryCall::Verify(args), asked),
            Self::Forget { args, asked } => (HistoryCall::Forget(args), asked),
        }
    }
}

#[derive(Debug, Args)]
struct DoctorArgs {
    /// TOML file to judge with the machine; without it `sockeye.toml` of the working directory, if there is one.
    #[arg(long, value_name = "FILE", env = "SOCKEYE_CONFIG")]
    config: Option<PathBuf>,
    /// Connections to prepare for; without it `limits.conns_max`, if that is set, else as many as there is room for.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    connections: Option<u64>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Ask the gateway of this configuration whether it is well; ends with 0 if it is, 1 if not, 2 if it does not answer.
    #[arg(long, conflicts_with_all = ["connections", "record", "from"])]
    live: bool,
    /// Print what is looked at, to be judged elsewhere.
    #[arg(long, conflicts_with = "json")]
    record: bool,
    /// Judge what `--record` printed on another machine.
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    from: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Args)]
struct Overrides {
    /// TOML file; without it `sockeye.toml` of the working directory, if there is one.
    #[arg(long, value_name = "FILE", env = "SOCKEYE_CONFIG")]
    config: Option<PathBuf>,
    /// Public address, or `unix:` and the path of a socket; may be given several times.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Address of metrics and health, or `off`.
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<String>,
    /// Data-plane threads; 0 = one for each core.
    #[arg(long, value_name = "N")]
    shards: Option<String>,
    /// Set of defaults: chat, socket.io, plain or public.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Number of this node, `hostname` or `auto`.
    #[arg(long, value_name = "N")]
    node: Option<String>,
    /// Take over from the process that runs with this configuration; `sockeye upgrade` starts a successor so.
    #[arg(long)]
    take_over: bool,
}

// The gateway that a command asks. (As documentation, this would be the help of each such command.)
#[derive(Clone, Debug, Args)]
struct Asked {
    /// TOML file of the gateway that is asked; without it `sockeye.toml` of the working directory, if there is one.
    #[arg(long, value_name = "FILE", env = "SOCKEYE_CONFIG")]
    config: Option<PathBuf>,
    /// Address of its operators' listener (`server.admin`), if it is another than in the file.
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<String>,
}

impl From<Asked> for Overrides {
    fn from(asked: Asked) -> Self {
        Self {
            config: asked.config,
            admin: asked.admin,
            ..Self::default()
        }
    }
}

/// What is to be done.
#[derive(Debug)]
pub enum Command {
    Serve(Request),
    Init(InitArgs),
    Config(ConfigCommand),
    /// And whether it is asked for readiness.
    Health(Request, bool),
    Doctor(Order),
    Plan(Box<crate::plan::PlanArgs>),
    Bench(Vec<OsString>),
    Shadow(Vec<OsString>),
    Token(Box<TokenArgs>),
    /// A name, and what the key allows.
    ApiKey(String, Vec<String>),
    Emit(Box<EmitArgs>, Request),
    Sockets(Box<SocketsArgs>, Request),
    Sessions(Box<SessionsArgs>, Request),
    Trace(Box<TraceArgs>, Request),
    Record(Box<RecordArgs>, Request),
    Replay(Box<ReplayArgs>),
    Top(TopArgs, Request),
    Rooms(Box<RoomsArgs>, Request),
    History(HistoryCall, Request),
    Disconnect(Box<DisconnectArgs>, Request),
    Nodes(Box<NodesArgs>, Request),
    Upgrade(UpgradeArgs, Request),
    Supervise(SuperviseArgs),
    Completions(clap_complete::Shell),
    Man(Option<PathBuf>),
}

#[derive(Debug)]
pub enum ConfigCommand {
    Check { request: Request, online: bool },
    Show { request: Request, json: bool },
    Reference { page: Page },
}

/// A page that is made from the table of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Keys,
    Toml,
}

impl Cli {
    /// The command. Flags before the command count like those behind it, which come first.
    pub fn command(self) -> Command {
        let root = self.serve;
        let merged = |own: Overrides| own.or(root.clone()).request();
        match self.command {
            None => Command::Serve(root.request()),
            Some(CommandArgs::Init(args)) => Command::Init(args),
            Some(CommandArgs::Plan(args)) => Command::Plan(args),
            Some(CommandArgs::Bench { args }) => Command::Bench(args),
            Some(CommandArgs::Shadow { args }) => Command::Shadow(args),
            Some(CommandArgs::Serve(own)) => Command::Serve(merged(own)),
            Some(CommandArgs::Health { ready, asked }) => {
                Command::Health(merged(asked.into()), ready)
            }
            Some(CommandArgs::Doctor(args)) => Command::Doctor(args.order(merged)),
            Some(CommandArgs::Token(token)) => Command::Token(token),
            Some(CommandArgs::Completions { shell }) => Command::Completions(shell),
            Some(CommandArgs::Man { folder }) => Command::Man(folder),
            Some(CommandArgs::Emit { args, asked }) => Command::Emit(args, merged(asked.into())),
            Some(CommandArgs::Sockets { args, asked }) => {
                Command::Sockets(args, merged(asked.into()))
            }
            Some(CommandArgs::Sessions { args, asked }) => {
                Command::Sessions(args, merged(asked.into()))
            }
            Some(CommandArgs::Trace { args, asked }) => Command::Trace(args, merged(asked.into())),
            Some(CommandArgs::Record { args, asked }) => {
                Command::Record(args, merged(asked.into()))
            }
            Some(CommandArgs::Replay(args)) => Command::Replay(args),
            Some(CommandArgs::Top { args, asked }) => Command::Top(args, merged(asked.into())),
            Some(CommandArgs::Rooms { args, asked }) => Command::Rooms(args, merged(asked.into())),
            Some(CommandArgs::History(command)) => {
                let (call, asked) = command.parts();
                Command::History(call, merged(asked.into()))
            }
            Some(CommandArgs::Disconnect { args, asked }) => {
                Command::Disconnect(args, merged(asked.into()))
            }
            Some(CommandArgs::Nodes { args, asked }) => Command::Nodes(args, merged(asked.into())),
            Some(CommandArgs::Upgrade { args, asked }) => {
                Command::Upgrade(args, merged(asked.into()))
            }
            Some(CommandArgs::Supervise(args)) => Command::Supervise(args),
            Some(CommandArgs::ApiKey { name, allow }) => Command::ApiKey(name, allow),
            Some(CommandArgs::Config(config)) => Command::Config(match config {
                ConfigArgs::Check { overrides, online } => ConfigCommand::Check {
                    request: merged(overrides),
                    online,
                },
                ConfigArgs::Show { overrides, json } => ConfigCommand::Show {
                    request: merged(overrides),
                    json,
                },
                ConfigArgs::Reference { toml } => ConfigCommand::Reference {
                    page: if toml { Page::Toml } else { Page::Keys },
                },
            }),
        }
    }
}

impl DoctorArgs {
    fn order(self, merged: impl FnOnce(Overrides) -> Request) -> Order {
        Order {
            request: merged(Overrides {
                config: self.config,
                ..Overrides::default()
            }),
            connections: self.connections,
            json: self.json,
            live: self.live,
            record: self.record,
            from: self.from,
        }
    }
}

impl Overrides {
    /// Settings that are not given here are as there.
    fn or(self, other: Self) -> Self {
        Self {
            config: self.config.or(other.config),
            listen: match self.listen.is_empty() {
                true => other.listen,
                false => self.listen,
            },
            admin: self.admin.or(other.admin),
            shards: self.shards.or(other.shards),
            profile: self.profile.or(other.profile),
            node: self.node.or(other.node),
            take_over: self.take_over || other.take_over,
        }
    }

    fn request(self) -> Request {
        let listen = (!self.listen.is_empty()).then(|| self.listen.join(","));
        let given = [
            ("--listen", "server.listen", listen),
            ("--admin", "server.admin", self.admin),
            ("--shards", "server.shards", self.shards),
            ("--profile", "profile", self.profile),
            ("--node", "server.node", self.node),
        ];
        let flags = given.into_iter().filter_map(|(name, key, text)| {
            Some(Flag {
                name,
                key,
                text: text?,
            })
        });
        Request {
            file: self.config,
            flags: flags.collect(),
            takes_over: self.take_over,
        }
    }
}

#[cfg(test)]
#[path = "cli_pages.rs"]
mod pages;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::key::Profile;
    use clap::CommandFactory;

    fn serve(args: &[&str]) -> Request {
        let cli = Cli::try_parse_from(args).expect("valid arguments");
        match cli.command() {
            Command::Serve(request) => request,
            _ => panic!("serve expected"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        <Cli as CommandFactory>::command().debug_assert();
    }

    #[test]
    fn serve_is_the_default_and_takes_the_same_flags() {
        let flags = [
            "--listen",
            "127.0.0.1:1",
            "--listen",
            "127.0.0.1:2",
            "--shards",
            "2",
        ];
        let plain = serve(&[&["sockeye"][..], &flags].concat());
        let named = serve(&[&["sockeye", "serve"][..], &flags].concat());
        for request in [plain, named] {
            let texts: Vec<_> = request
                .flags
                .iter()
                .map(|flag| (flag.key, &*flag.text))
                .collect();
            let listen = ("server.listen", "127.0.0.1:1,127.0.0.1:2");
            assert_eq!(texts, [listen, ("server.shards", "2")]);
        }
    }

    /// A profile that nobody is told of is not used.
    #[test]
    fn help_names_every_profile() {
        let mut command = <Cli as CommandFactory>::command();
        let serve = command.find_subcommand_mut("serve").expect("serve");
        let flag = serve
            .get_arguments()
            .find(|flag| flag.get_id() == "profile");
        let help = flag
            .and_then(|flag| flag.get_help())
            .map(ToString::to_string);
        for name in Profile::NAMES {
            let told = help.as_ref().is_some_and(|help| help.contains(name));
            assert!(told, "{name}: {help:?}");
        }
    }

    /// `sockeye emit --help` and `sockeye doctor --help` had `--shards` and `--profile` in them, as if they began to serve.
    #[test]
    fn commands_that_only_ask_had_the_flags_of_one_that_serves() {
        let command = <Cli as CommandFactory>::command();
        let mut abouts = std::collections::BTreeSet::new();
        for name in [
            "emit",
            "sockets",
            "rooms",
            "disconnect",
            "nodes",
            "health",
            "doctor",
        ] {
            let asks = command.find_subcommand(name).expect(name);
            let flags: Vec<&str> = asks
                .get_arguments()
                .filter_map(clap::Arg::get_long)
                .collect();
            for flag in ["listen", "shards", "profile", "node"] {
                assert!(!flags.contains(&flag), "{name} --{flag}");
            }
            let asks_one = flags.contains(&"admin") || name == "doctor";
            assert!(flags.contains(&"config") && asks_one, "{name}");
            let about = asks.get_about().map(ToString::to_string);
            assert!(abouts.insert(about.clone()), "{name}: {about:?}");
            let silent = asks.get_arguments().find(|arg| arg.get_help().is_none());
            assert!(silent.is_none(), "{name}: {silent:?}");
        }
    }

    #[test]
    fn unknown_flags_are_refused() {
        assert!(Cli::try_parse_from(["sockeye", "--port", "1"]).is_err());
        assert!(Cli::try_parse_from(["sockeye", "server"]).is_err());
    }

    /// `sockeye --config f emit …` was a puzzle: the flag is one of serving, and emit has one of the same name.
    #[test]
    fn flags_before_a_command_count_and_those_behind_it_come_first() {
        let args = [
            "sockeye", "--config", "f", "--admin", "off", "emit", "--admin", "x", "news",
        ];
        let cli = Cli::try_parse_from(args).expect("valid arguments");
        let Command::Emit(_, request) = cli.command() else {
            panic!("emit expected")
        };
        assert_eq!(request.file, Some(PathBuf::from("f")));
        let texts = request.flags.iter().map(|flag| (flag.key, &*flag.text));
        assert_eq!(texts.collect::<Vec<_>>(), [("server.admin", "x")]);
    }
}
