//! The board on which nodes show each other a value each: a key for each node, which ends by itself, and a list of their numbers.

use super::item::Place;
use super::slot::slot;
use super::{Port, odd};
use crate::engine::{Board, Shown, Trouble};
use redis::{Cmd, Value};

/// Sets one's own key and returns what stands under all, as number and value in turns. Whoever has no key any more goes from the
/// list, and so does whatever is no number. All keys are of one slot; the list names those of the others. Of values no more is read than
/// one may have, and of all together no more than 16 MiB, whoever wrote them.
const SHOW: &str = "redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3]) \
    local bytes = 0 local list = redis.pcall('GET', KEYS[1]) if type(list) ~= 'string' then list = '' end \
    local seen, kept, all = {}, {}, {} \
    for number in string.gmatch(string.sub(list, 1, 8192) .. ' ' .. ARGV[1], '%d+') do \
    if #number <= 4 and not seen[number] then seen[number] = true \
    local value = redis.pcall('GETRANGE', ARGV[4] .. number, 0, tonumber(ARGV[5])) \
    if type(value) == 'string' and value ~= '' then kept[#kept + 1] = number bytes = bytes + #value \
    if bytes <= 16777216 then all[#all + 1] = number all[#all + 1] = value end end end end \
    local now = table.concat(kept, ' ') \
    if now ~= list then redis.call('SET', KEYS[1], now) end return all";

impl Port {
    pub(super) async fn show_on(&self, board: &Board, value: &[u8]) -> Result<Shown, Trouble> {
        let own = board.key(board.number);
        let mut command = Cmd::with_capacity(9, value.len() + SHOW.len() + 256);
        command.arg("EVAL").arg(SHOW).arg(2).arg(&board.list[..]);
        command.arg(&own).arg(board.number).arg(value);
        let ms = u64::try_from(board.time.as_millis()).unwrap_or(u64::MAX);
        command.arg(ms).arg(&board.stem[..]).arg(board.bytes_max);
        match self.ask(command, Place::Slot(slot(&board.list))).await? {
            Value::Array(all) => Ok(pairs(all)),
            other => Err(odd(&other, "limits were shared")),
        }
    }
}

fn pairs(all: Vec<Value>) -> Shown {
    let mut all = all.into_iter();
    let mut pairs = Vec::new();
    while let (Some(number), Some(value)) = (all.next(), all.next()) {
        if let (Value::BulkString(number), Value::BulkString(value)) = (number, value)
            && let Ok(number) = String::from_utf8_lossy(&number).parse()
        {
            pairs.push((number, value));
        }
    }
    pairs
}
