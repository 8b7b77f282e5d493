// One journey of a TypeScript client: connect, list, call until refused, list again, wait as told, go on.
//
// Usage: node journey.mjs sdk|client URL KEY
//
// Prints one JSON object: how many calls were served, what the client could read of the refusal, and whether the session
// went on afterwards.

const [kind, url, key] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await load();
const client = new Client({ name: "journey", version: "1.0.0" });
const headers = { Authorization: `Bearer ${key}` };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const call = () => client.callTool({ name: "export", arguments: { dataset: "sales" } });

await client.listTools();
let served = 0;
let refusal;
while (refusal === undefined && served < 20) {
  try {
    await call();
    served += 1;
  } catch (error) {
    refusal = { type: error.name, text: error.message, code: error.code ?? null, status: error.data?.status ?? null };
  }
}
await client.listTools();
const wait = /Retry in (\d+) s/.exec(refusal?.text ?? "");
await new Promise((resolve) => setTimeout(resolve, 1000 * Number(wait?.[1] ?? 0)));
await call();
console.log(JSON.stringify({ served, refusal, again: true }));
await client.close();

async function load() {
  if (kind === "client") return import("@modelcontextprotocol/client");
  const [{ Client }, { StreamableHTTPClientTransport }] = await Promise.all([
    import("@modelcontextprotocol/sdk/client/index.js"),
    import("@modelcontextprotocol/sdk/client/streamableHttp.js"),
  ]);
  return { Client, StreamableHTTPClientTransport };
}
