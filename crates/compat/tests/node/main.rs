//! The dialects against those who speak them: Node's Socket.IO server with each of its Redis adapters, its emitter, and
//! python-socketio, on a real Redis.

mod emitters;
mod golden;
mod member;
mod redis;
mod together;
