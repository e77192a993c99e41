//! Why a session ended and why a socket left its namespace: one table for wire, logs, metrics and docs.

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident: $name:literal, $code:expr, $text:literal, $told:ident;)*) => {
        /// Why a session or connection ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum CloseReason {
            $($(#[$doc])* $reason,)*
        }

        impl CloseReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$reason),*];

            /// Name in logs and metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }

            /// Status of the WebSocket close frame; `None` = a frame without status, as Engine.IO sends.
            pub fn close_code(self) -> Option<u16> {
                match self {
                    $(Self::$reason => $code,)*
                }
            }

            /// Text of the close frame.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$reason => $text,)*
                }
            }

            /// What handlers are told of the session's sockets.
            pub fn disconnect_reason(self) -> DisconnectReason {
                match self {
                    $(Self::$reason => DisconnectReason::$told,)*
                }
            }
        }
    };
}

// Name, status, text, what handlers are told. The status numbers are stable: 1000-1015 as in RFC 6455 §7.4, 4000-4499 ours
// (the client may reconnect), 4500-4999 ours (it should not).
reasons! {
    /// The peer closed the transport.
    TransportClose: "transport_close", None, "", TransportClose;
    /// The connection broke (reset, write error).
    TransportError: "transport_error", None, "", TransportError;
    /// No pong in time.
    PingTimeout: "ping_timeout", Some(4000), "ping timeout", PingTimeout;
    /// Not Engine.IO or Socket.IO.
    ParseError: "parse_error", Some(4500), "parse error", ParseError;
    /// RFC 6455 violation.
    ProtocolError: "protocol_error", Some(1002), "", TransportError;
    /// Text that is not UTF-8 (RFC 6455 §8.1).
    InvalidUtf8: "invalid_utf8", Some(1007), "", TransportError;
    /// A message beyond its bound.
    MessageTooBig: "message_too_big", Some(1009), "message too big", TransportError;
    /// Outbox full under the `disconnect` policy.
    SlowConsumer: "slow_consumer", Some(4001), "slow consumer", ForcedServerClose;
    /// The handler or server asked for it.
    ServerClose: "server_close", None, "", ForcedServerClose;
    /// The process stops.
    ShuttingDown: "shutting_down", Some(1001), "server shutting down", ServerShuttingDown;
    /// Its client is to go to a node that has fewer.
    Rebalanced: "rebalanced", Some(1012), "come back on another node", TransportClose;
    /// No namespace joined in time.
    ConnectTimeout: "connect_timeout", Some(4003), "no namespace joined in time", ForcedServerClose;
    /// A message or request was begun and not finished in time.
    MessageTimeout: "message_timeout", Some(4002), "message not completed in time", TransportError;
    /// No whole request came in time.
    HandshakeTimeout: "handshake_timeout", Some(4002), "message not completed in time", TransportError;
    /// A limit of `limits.rs` that ends the session.
    LimitExceeded: "limit_exceeded", Some(1008), "limit exceeded", ForcedServerClose;
    /// A handler failed.
    InternalError: "internal_error", Some(1011), "internal error", ForcedServerClose;
    /// No token, or none that is good.
    Unauthorized: "unauthorized", Some(4501), "unauthorized", ForcedServerClose;
    /// Its token could not be checked: no keys, or no verdict in time.
    AuthUnavailable: "auth_unavailable", Some(1013), "authentication unavailable", ForcedServerClose;
    /// Its namespace was without a worker for too long.
    NoBackend: "no_backend", Some(1013), "no backend is connected", ForcedServerClose;
    /// The token ended and was not refreshed.
    TokenExpired: "token_expired", Some(4004), "token expired", ForcedServerClose;
    /// Its address has more connections than one address may have.
    TooManyConnections: "too_many_connections", Some(1008), "Connection limit exceeded", ForcedServerClose;
    /// It went on sending far beyond its rate.
    Flood: "flood", Some(1008), "Rate limit exceeded", ForcedServerClose;
    /// A poll was repeated: its answer did not arrive, and the packets in it are lost.
    AnswerLost: "answer_lost", None, "", TransportError;
    /// The process is short of memory, and this client reads slowest.
    OutOfMemory: "out_of_memory", Some(1013), "server is short of memory", ForcedServerClose;
}

/// How a socket leaves its namespace: the log has one word for it, handlers have Socket.IO's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Its session ends.
    Session(CloseReason),
    /// The client sent DISCONNECT.
    ByClient,
    /// The server sent DISCONNECT; for a reason of the table if there was one.
    ByServer(Option<CloseReason>),
}

impl CloseReason {
    /// A client that left so may come back to what it missed: it lost its transport, or was sent off for no fault of its own.
    pub(crate) fn may_return(self) -> bool {
        match self {
            Self::TransportClose
            | Self::TransportError
            | Self::PingTimeout
            | Self::SlowConsumer
            | Self::ServerClose
            | Self::ShuttingDown
            | Self::Rebalanced
            | Self::MessageTimeout
            | Self::NoBackend
            | Self::TokenExpired
            | Self::AnswerLost
            | Self::OutOfMemory => true,
            Self::ParseError
            | Self::ProtocolError
            | Self::InvalidUtf8
            | Self::MessageTooBig
            | Self::ConnectTimeout
            | Self::HandshakeTimeout
            | Self::LimitExceeded
            | Self::InternalError
            | Self::Unauthorized
            | Self::AuthUnavailable
            | Self::TooManyConnections
            | Self::Flood => false,
        }
    }
}

impl Departure {
    /// Socket.IO's DISCONNECT is final, from either side.
    pub(crate) fn may_return(self) -> bool {
        match self {
            Self::Session(reason) => reason.may_return(),
            Self::ByClient | Self::ByServer(_) => false,
        }
    }

    /// Name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session(reason) | Self::ByServer(Some(reason)) => reason.name(),
            Self::ByClient => "client_namespace_disconnect",
            Self::ByServer(None) => "server_namespace_disconnect",
        }
    }

    /// What handlers are told.
    pub fn disconnect_reason(self) -> DisconnectReason {
        match self {
            Self::Session(reason) => reason.disconnect_reason(),
            Self::ByClient => DisconnectReason::ClientNamespaceDisconnect,
            Self::ByServer(_) => DisconnectReason::ServerNamespaceDisconnect,
        }
    }
}

named! {
    /// Why a socket left its namespace, in Socket.IO's own words.
    pub enum DisconnectReason {
        /// The client sent DISCONNECT.
        ClientNamespaceDisconnect = "client namespace disconnect",
        /// The server sent DISCONNECT.
        ServerNamespaceDisconnect = "server namespace disconnect",
        /// The client closed the transport.
        TransportClose = "transport close",
        /// The transport broke, or the client broke its rules.
        TransportError = "transport error",
        /// The client did not answer a ping in time.
        PingTimeout = "ping timeout",
        /// The client sent what is no packet.
        ParseError = "parse error",
        /// The server closed the transport.
        ForcedServerClose = "forced server close",
        /// The process stops.
        ServerShuttingDown = "server shutting down",
    }
}

impl DisconnectReason {
    /// Its words.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
