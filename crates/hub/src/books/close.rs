//! Why a session ended and why a socket left its namespace: one table for wire, logs, metrics and docs.

/// Why a session or connection ended. Numbers are stable: 1000-1015 as in RFC 6455 §7.4, 4000-4499 ours (reconnect), 4500-4999 ours (do not).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CloseReason {
    /// The peer closed the transport.
    TransportClose,
    /// The connection broke (reset, write error).
    TransportError,
    /// No pong in time.
    PingTimeout,
    /// Not Engine.IO or Socket.IO.
    ParseError,
    /// RFC 6455 violation.
    ProtocolError,
    InvalidUtf8,
    MessageTooBig,
    /// Outbox full under the `disconnect` policy.
    SlowConsumer,
    /// The handler or server asked for it.
    ServerClose,
    ShuttingDown,
    /// No namespace joined in time.
    ConnectTimeout,
    /// A message or request was begun and not finished in time.
    MessageTimeout,
    HandshakeTimeout,
    /// A limit of `limits.rs` that ends the session.
    LimitExceeded,
    /// A handler failed.
    InternalError,
    /// No token, or none that is good.
    Unauthorized,
    /// Its token could not be checked: no keys, or no verdict in time.
    AuthUnavailable,
    /// The token ended and was not refreshed.
    TokenExpired,
    /// Its address has more connections than one address may have.
    TooManyConnections,
    /// It went on sending far beyond its rate.
    Flood,
    /// The process is short of memory, and this client reads slowest.
    OutOfMemory,
}

impl CloseReason {
    pub const ALL: [Self; 21] = [
        Self::TransportClose,
        Self::TransportError,
        Self::PingTimeout,
        Self::ParseError,
        Self::ProtocolError,
        Self::InvalidUtf8,
        Self::MessageTooBig,
        Self::SlowConsumer,
        Self::ServerClose,
        Self::ShuttingDown,
        Self::ConnectTimeout,
        Self::MessageTimeout,
        Self::HandshakeTimeout,
        Self::LimitExceeded,
        Self::InternalError,
        Self::Unauthorized,
        Self::AuthUnavailable,
        Self::TokenExpired,
        Self::TooManyConnections,
        Self::Flood,
        Self::OutOfMemory,
    ];

    /// Name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::TransportClose => "transport_close",
            Self::TransportError => "transport_error",
            Self::PingTimeout => "ping_timeout",
            Self::ParseError => "parse_error",
            Self::ProtocolError => "protocol_error",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::MessageTooBig => "message_too_big",
            Self::SlowConsumer => "slow_consumer",
            Self::ServerClose => "server_close",
            Self::ShuttingDown => "shutting_down",
            Self::ConnectTimeout => "connect_timeout",
            Self::MessageTimeout => "message_timeout",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::LimitExceeded => "limit_exceeded",
            Self::InternalError => "internal_error",
            Self::Unauthorized => "unauthorized",
            Self::AuthUnavailable => "auth_unavailable",
            Self::TokenExpired => "token_expired",
            Self::TooManyConnections => "too_many_connections",
            Self::Flood => "flood",
            Self::OutOfMemory => "out_of_memory",
        }
    }

    /// Status of the WebSocket close frame; `None` = a frame without status, as Engine.IO sends.
    pub fn close_code(self) -> Option<u16> {
        match self {
            Self::TransportClose | Self::TransportError | Self::ServerClose => None,
            Self::ProtocolError => Some(1002),
            Self::InvalidUtf8 => Some(1007),
            Self::MessageTooBig => Some(1009),
            Self::ShuttingDown => Some(1001),
            Self::LimitExceeded | Self::TooManyConnections | Self::Flood => Some(1008),
            Self::InternalError => Some(1011),
            Self::AuthUnavailable | Self::OutOfMemory => Some(1013),
            Self::PingTimeout => Some(4000),
            Self::SlowConsumer => Some(4001),
            Self::MessageTimeout | Self::HandshakeTimeout => Some(4002),
            Self::ConnectTimeout => Some(4003),
            Self::TokenExpired => Some(4004),
            Self::ParseError => Some(4500),
            Self::Unauthorized => Some(4501),
        }
    }

    /// Text of the close frame.
    pub fn text(self) -> &'static str {
        match self {
            Self::ShuttingDown => "server shutting down",
            Self::SlowConsumer => "slow consumer",
            Self::PingTimeout => "ping timeout",
            Self::ParseError => "parse error",
            Self::ConnectTimeout => "no namespace joined in time",
            Self::MessageTimeout | Self::HandshakeTimeout => "message not completed in time",
            Self::MessageTooBig => "message too big",
            Self::LimitExceeded => "limit exceeded",
            Self::InternalError => "internal error",
            Self::Unauthorized => "unauthorized",
            Self::AuthUnavailable => "authentication unavailable",
            Self::TokenExpired => "token expired",
            Self::TooManyConnections => "Connection limit exceeded",
            Self::Flood => "Rate limit exceeded",
            Self::OutOfMemory => "server is short of memory",
            _ => "",
        }
    }

    /// What handlers are told of the session's sockets.
    pub fn disconnect_reason(self) -> DisconnectReason {
        match self {
            Self::TransportClose => DisconnectReason::TransportClose,
            Self::PingTimeout => DisconnectReason::PingTimeout,
            Self::ShuttingDown => DisconnectReason::ServerShuttingDown,
            Self::ParseError => DisconnectReason::ParseError,
            Self::TransportError
            | Self::ProtocolError
            | Self::InvalidUtf8
            | Self::MessageTooBig
            | Self::MessageTimeout
            | Self::HandshakeTimeout => DisconnectReason::TransportError,
            _ => DisconnectReason::ForcedServerClose,
        }
    }
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

impl Departure {
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

/// Why a socket left its namespace, in Socket.IO's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    ClientNamespaceDisconnect,
    ServerNamespaceDisconnect,
    TransportClose,
    TransportError,
    PingTimeout,
    ParseError,
    ForcedServerClose,
    ServerShuttingDown,
}

impl DisconnectReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientNamespaceDisconnect => "client namespace disconnect",
            Self::ServerNamespaceDisconnect => "server namespace disconnect",
            Self::TransportClose => "transport close",
            Self::TransportError => "transport error",
            Self::PingTimeout => "ping timeout",
            Self::ParseError => "parse error",
            Self::ForcedServerClose => "forced server close",
            Self::ServerShuttingDown => "server shutting down",
        }
    }
}
