// A client that is in a room and asks for nothing: what the room says waits for it.

/** By long-polling, without a poll after the first ones. It lasts until its heartbeat is missed. */
export async function sluggard(url, room) {
  const base = `${url}/socket.io/?EIO=4&transport=polling`;
  const opened = await (await fetch(base)).text();
  const at = `${base}&sid=${JSON.parse(opened.slice(1)).sid}`;
  const say = async (body) => await (await fetch(at, { method: "POST", body })).text();
  const hear = async () => await (await fetch(at)).text();
  await say("40");
  await hear();
  await say(`420${JSON.stringify(["join", room])}`);
  const answer = await hear();
  if (!answer.startsWith("430")) throw new Error(`cannot join ${room}: ${answer}`);
  return { leave: () => say("1") };
}
