// A worker for tests: `node worker.mjs LIBRARY GATEWAY,… KEY`.

const [library, gateways, key] = process.argv.slice(2);
const { Server } = await import(library);
const io = new Server({ gateway: gateways.split(","), key, backend: "kitchen" });
io.of("/meal").on("connection", (socket) => {
  socket.on("order", (dish, done) => done(dish));
  socket.on("poison", () => process.exit(9));
});
await io.ready;
console.log("ready");
