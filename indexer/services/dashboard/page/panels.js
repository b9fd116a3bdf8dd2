// Everything but the map: tiles, tables, lists.

import { bytes, count, duration, element, facts, percent, rate, show, table } from "./format.js";

const at = (id) => document.getElementById(id);

export function showAll(status, missing) {
  const { chain, schema } = status;
  at("chain").textContent = chain ? `chain ${chain.chain_id} in schema ${schema}` : `schema ${schema}, no chain yet`;
  document.title = `${title(status)} · indexer`;
  attention(status, missing);
  tiles(status);
  throughput(status.progress);
  queue(status.queue);
  failed(status.failed);
  workers(status.workers);
  nodes(status.endpoints);
  database(status.database);
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1);

function done(progress) {
  const planned = 2 * progress.planned_blocks;
  return planned ? (progress.planned_stored_blocks + progress.planned_stored_events) / planned : null;
}

function title(status) {
  const share = done(status.progress);
  return share === null ? "nothing planned" : percent(share);
}

function attention(status, missing) {
  const { queue, database, tip, workers } = status;
  const said = [];
  const failing = queue.failed;
  if (tip.contradiction) said.push(["bad", `A node contradicts what was final: ${tip.contradiction}`]);
  if (failing) {
    const most = status.failed.length > 1 ? ", most of them" : "";
    said.push(["bad", `${count(failing)} failed job${failing === 1 ? "" : "s"}${most}: ${status.failed[0]?.reason ?? ""}`]);
  }
  for (const pin of database.vacuum_pins) {
    said.push(["bad", `Vacuum is held back by ${pin.holder} ${pin.name}${pin.user ? ` of ${pin.user}` : ""}. ${sentence(pin.remedy)}`]);
  }
  const nobody = !queue.running && queue.pending && !workers.length;
  if (nobody) said.push(["warn", `${count(queue.pending)} jobs wait and no worker is there: start indexer work`]);
  if (missing) {
    said.push(["warn", `${count(missing)} blocks, or their receipts, are missing and nothing is queued for them: run indexer plan again`]);
  }
  if (tip.lag_blocks > 100) said.push(["warn", `The tip is ${count(tip.lag_blocks)} blocks behind the node`]);
  const { used, allowed } = database.connections;
  if (used > 0.9 * allowed) said.push(["warn", `${used} of ${allowed} connections of the database are used`]);
  at("attention").hidden = !said.length;
  show(at("attention-list"), ...said.map(([className, text]) => element("li", { className, text })));
}

function tiles(status) {
  const { progress, tip, queue } = status;
  const share = done(progress);
  const about = queue.pending_estimated ? "≈ " : "";
  const made = [
    ["Done", share === null ? "–" : percent(share), `${count(progress.planned_blocks)} blocks planned`],
    ["Rate", `${rate(progress.rate.blocks_per_second)}/s`, progress.rate.estimated ? "blocks, estimated" : "blocks stored"],
    ["Left", share === null ? "–" : progress.eta_seconds === 0 ? "nothing" : progress.eta_seconds === null ? "–" : duration(progress.eta_seconds), arrival(progress)],
    ["Tip", tip.highest_block === null ? "–" : count(tip.highest_block), tipNote(tip), "", "tip"],
    ["Queue", `${about}${count(queue.pending)}`, `${count(queue.running)} running`],
    ["Failed", count(queue.failed), queue.failed ? "see below" : "none", queue.failed ? "bad-text" : "", "failed-count"],
  ];
  show(at("tiles"), ...made.map(([name, value, note, className = "", id]) =>
    element("div", id ? { id: `tile-${id}` } : {}, element("dt", { text: name }),
      element("dd", { className: `value ${className}`, text: value }), element("dd", { className: "note", text: note }))));
}

function arrival(progress) {
  if (!progress.planned_blocks) return "nothing is planned";
  if (progress.eta_seconds === 0) return "all that is planned is stored";
  if (!progress.eta_at) return "nothing moves";
  return `until ${new Date(progress.eta_at).toLocaleString([], { weekday: "short", hour: "2-digit", minute: "2-digit" })}`;
}

function tipNote(tip) {
  if (tip.highest_block === null) return "no block yet";
  const age = tip.age_seconds === null ? "" : `${duration(tip.age_seconds)} old`;
  const behind = tip.lag_blocks === null ? "" : `${count(tip.lag_blocks)} behind`;
  return [behind, age, tip.follower ? "" : "not followed"].filter(Boolean).join(", ");
}

function throughput(progress) {
  const speed = progress.rate;
  at("rate-now").textContent = `${rate(speed.blocks_per_second)} blocks/s`;
  facts(at("progress"), [
    ["Blocks", `${count(progress.stored_blocks)} stored, ${count(progress.proven_blocks)} proven`],
    ["Receipts, logs", `of ${count(progress.stored_events)} blocks stored, ${count(progress.proven_events)} proven`],
    ["Missing", `${count(progress.missing_blocks)} planned blocks in ${count(progress.gaps_total)} gaps`],
    ["Audited", progress.audited_at ? new Date(progress.audited_at).toLocaleString() : "never; indexer verify does"],
  ]);
}

function queue(found) {
  const about = found.pending_estimated ? "≈ " : "";
  at("queue-reading").textContent = found.reading;
  const rows = Object.entries(found.kinds).map(([kind, states]) => {
    const cells = [`${about}${count(states.pending ?? 0)}`, count(states.running ?? 0), count(states.failed ?? 0), duration(found.durations[kind]?.median_seconds)];
    return element("tr", {}, element("td", { text: kind }), ...cells.map((text) => element("td", { className: "n", text })));
  });
  if (!rows.length) rows.push(element("tr", {}, element("td", { colspan: "5", className: "quiet", text: "The queue is empty." })));
  show(at("queue"), ...rows);
  const unknown = Object.entries(found.unknown_kinds).map(([kind, n]) => `${kind} (${count(n)})`);
  facts(at("queue-facts"), [
    ["Oldest waits", found.oldest_pending_seconds === null ? "nothing waits" : duration(found.oldest_pending_seconds)],
    ["Last hour", `${count(found.finished_last_hour)} finished, ${count(found.errors_last_hour)} errors, ${count(found.expired_leases_last_hour)} leases expired`],
    ["Repeated, failed", `${percent(found.retry_rate)} of executions, ${percent(found.failure_rate)} of jobs`],
    ["Finding a job", duration(found.probe_seconds)],
    ...(unknown.length ? [["Unknown kinds", `${unknown.join(", ")}: no worker of this program runs them`]] : []),
  ]);
}

function failed(found) {
  if (!found.length) return show(at("failed"), element("p", { className: "quiet", text: "No job has failed." }));
  const rows = found.map((each) => [count(each.jobs), each.kind, each.reason, element("code", { text: each.retry })]);
  return show(at("failed"), table("Table of failed jobs", [["Jobs", "n"], ["Kind", ""], ["Reason", "long"], ["To retry", "long"]], rows));
}

function workers(found) {
  if (!found.length) return show(at("workers"), element("p", { className: "quiet", text: "Nobody works on this schema." }));
  const rows = found.map((each) => {
    const held = each.holds.slice(0, 4).map((claim) => `${claim.work} for ${duration(claim.seconds)}`);
    if (each.claims > held.length) held.push(`${each.claims - held.length} more`);
    return [each.name, `${each.claims} of ${each.concurrency}`, duration(each.uptime_seconds), `${duration(each.last_seen_seconds)} ago`, held.join(", ") || "nothing"];
  });
  return show(at("workers"), table("Table of workers", [["Worker", "long"], ["Claims", ""], ["Up", ""], ["Seen", ""], ["Holds", "long"]], rows));
}

function limits(found) {
  const written = (value) => (typeof value === "number" ? count(value) : typeof value === "object" ? JSON.stringify(value) : String(value));
  return Object.entries(found)
    .map(([name, value]) => {
      const [, what, unit] = name.match(/^(.*?)(?:_(seconds|bytes))?$/);
      const shown = unit === "bytes" ? bytes(value) : unit === "seconds" ? milliseconds(value) : written(value);
      return `${what.replaceAll("_", " ")} ${shown}`;
    })
    .join(", ");
}

const milliseconds = (seconds) => (seconds < 1 ? `${Math.round(1000 * seconds)} ms` : duration(seconds));

function nodes(found) {
  if (!found.length) return show(at("nodes"), element("p", { className: "quiet", text: "No node was used yet." }));
  const rows = found.map((each) => [each.name, each.state, limits(each.limits ?? {}) || "not known yet", each.last_error || "none"]);
  return show(at("nodes"), table("Table of nodes", [["Node", ""], ["State", ""], ["What it takes", "long"], ["Last error", "long"]], rows));
}

function database(found) {
  const held = found.queue_table;
  show(at("pins"), ...found.vacuum_pins.map((pin) => {
    const since = pin.seconds === null ? `${count(pin.transactions)} transactions back` : `for ${duration(pin.seconds)}`;
    const what = pin.query ? ` Its last query: ` : "";
    const made = element("p", { className: "pin" }, element("strong", { text: `${pin.holder} ${pin.name}` }),
      `${pin.user ? ` of ${pin.user}` : ""}${pin.state ? `, ${pin.state}` : ""}, holds vacuum back ${since}.${what}`);
    if (pin.query) made.append(element("code", { text: pin.query }), ".");
    made.append(` ${sentence(pin.remedy)}.`);
    return made;
  }));
  const { used, allowed, of_indexer: ours, idle_in_transaction: idle } = found.connections;
  const vacuumed = held.last_autovacuum_seconds === null ? "has not run yet" : `ran ${duration(held.last_autovacuum_seconds)} ago, ${held.autovacuums_per_hour.toFixed(1)} times an hour`;
  const growth = held.dead_rows_per_hour === null ? "" : `, ${count(held.dead_rows_per_hour)} more an hour`;
  facts(at("database"), [
    ["PostgreSQL", `${found.version}, up ${duration(found.uptime_seconds)}`],
    ["Queue's table", `about ${count(held.dead_rows)} dead rows beside ${count(held.live_rows)}${growth}, ${bytes(held.size_bytes)}`],
    ["Autovacuum", vacuumed],
    ["Vacuum", found.vacuum_pins.length ? "held back, see above" : "nobody holds it back"],
    ["Connections", `${used} of ${allowed} used, ${ours} by this program, ${idle} idle in a transaction`],
    ...found.long_transactions.slice(0, 5).map((each) => ["Long transaction", `${each.pid} of ${each.user}, ${each.state}, ${duration(each.seconds)}`]),
    ["WAL", `${bytes(found.wal_bytes)} so far`],
    ...found.replicas.map((each) => [`Replica ${each.name}`, `${bytes(each.lag_bytes)} behind${each.lag_seconds === null ? "" : `, ${duration(each.lag_seconds)}`}`]),
    ...found.slots.map((each) => [`Slot ${each.name}`, `${each.active ? "read" : "read by nobody"}, holds ${bytes(each.retained_bytes)} of WAL back`]),
    ["Notifications", `${percent(found.notification_queue_usage)} of their room used`],
    ...found.unseen.map((text) => ["Cannot be seen", text]),
  ]);
}
