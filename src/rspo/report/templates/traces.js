// An episode without a drawing: what was observed and what was done over time, one lane per number and one line per agent.
"use strict";

function drawTraces(pen, episode, t) {
  const { obs, action } = episode.arrays, frames = obs.shape[0], alone = obs.shape[1] === 1;
  episode.lanes ??= [...lanesOf(obs, "o", episode.names.obs), ...lanesOf(action, "a", episode.names.actions)];
  const named = episode.names.obs.length || episode.names.actions.length, left = named ? Math.min(90, pen.width / 3) : 26, right = alone ? 48 : 8, height = (pen.height - 4) / episode.lanes.length;
  const x = (frame) => left + (frame / Math.max(frames - 1, 1)) * (pen.width - left - right);
  episode.lanes.forEach((lane, i) => {
    const top = 2 + i * height, middle = top + height / 2, size = Math.min(10, height);
    pen.text(lane.label, left / 2, middle, pen.muted, size, left - 4);
    lane.agents.forEach((values, agent) => drawLane(pen, lane, values, agent, x, top, height));
    const now = lane.agents[0][Math.min(Math.floor(t), lane.agents[0].length - 1)];
    if (alone && Number.isFinite(now)) pen.text(String(Number(now.toPrecision(3))), pen.width - right / 2, middle, pen.ink, size);
  });
  const c = pen.context;
  c.strokeStyle = pen.ink; c.lineWidth = 1; c.beginPath(); c.moveTo(x(t), 0); c.lineTo(x(t), pen.height); c.stroke();
}

const laneCount = ({ obs, action }) => (obs.shape[2] ?? 1) + (action.shape[2] ?? 1);

// Of an array [frame, agent] or [frame, agent, number]: the values of every agent, and the range of them all.
function lanesOf({ shape, values }, letter, names) {
  const [frames, agents] = shape, count = shape[2] ?? 1;
  return Array.from({ length: count }, (_, o) => {
    const of = (agent) => Array.from({ length: frames }, (_, f) => values[(f * agents + agent) * count + o]);
    const lines = Array.from({ length: agents }, (_, agent) => of(agent));
    const known = lines.flat().filter(Number.isFinite), low = Math.min(...known), high = Math.max(...known);
    return { label: names[o] || letter + o, agents: lines, low, span: high - low || 1, held: letter === "a" };
  });
}

// An action holds from one moment to the next; a value that is not known ends the line.
function drawLane(pen, lane, values, agent, x, top, height) {
  const c = pen.context, y = (value) => top + height * (0.9 - (0.8 * (value - lane.low)) / lane.span);
  c.strokeStyle = pen.own; c.lineWidth = 1.5; c.beginPath();
  c.setLineDash(agent ? [4, 4] : []);  // so that one is seen below another
  values.forEach((value, f) => {
    if (!Number.isFinite(value)) return;
    f ? c.lineTo(x(f), y(value)) : c.moveTo(x(f), y(value));
    if (lane.held) c.lineTo(x(f + 1), y(value));
  });
  c.stroke(); c.setLineDash([]);
}
