// Where things are on the map, as far as the page works it out: sizes as in scene.py, and places by forces.
export const BOX = [150, 58];
export const CLIENT = [132, 30];
export const STUB = 180;
export const ROW = 58;

// Where the line from the middle of a box towards another point leaves the box.
export function edge([x, y], [tx, ty], [w, h]) {
  const dx = tx - x, dy = ty - y;
  if (!dx && !dy) return [x, y];
  const scale = Math.min(dx ? w / 2 / Math.abs(dx) : Infinity, dy ? h / 2 / Math.abs(dy) : Infinity);
  return [x + dx * scale, y + dy * scale];
}

function sized(node) {
  return [BOX[0] + (node.drawn ? 2 * (STUB + CLIENT[0]) : 0), Math.max(BOX[1], ROW * node.drawn)];
}

// Places by forces: joined nodes attract, all others repel, and boxes make room for each other at the end.
export function byForces(nodes, links) {
  const n = nodes.length, at = [], index = new Map(nodes.map((one, i) => [one.name, i]));
  const joined = nodes.map(() => []);
  for (const one of links) {
    if (one.client) continue;
    joined[index.get(one.a)].push(index.get(one.b));
    joined[index.get(one.b)].push(index.get(one.a));
  }
  // The best joined first, then breadth first: neighbours begin near each other.
  const order = [], seen = new Set();
  for (const start of [...nodes.keys()].sort((a, b) => joined[b].length - joined[a].length)) {
    if (seen.has(start)) continue;
    seen.add(start);
    for (const queue = [start]; queue.length; ) {
      const one = queue.shift();
      order.push(one);
      for (const next of joined[one]) if (!seen.has(next)) { seen.add(next); queue.push(next); }
    }
  }
  order.forEach((one, i) => { at[one] = [170 * Math.sqrt(i) * Math.cos(i * 2.4), 110 * Math.sqrt(i) * Math.sin(i * 2.4)]; });
  const length = 230, steps = n > 400 ? 60 : 200;
  for (let step = 0; step < steps; step++) {
    const move = nodes.map(() => [0, 0]);
    for (let i = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++) {
        const dx = at[i][0] - at[j][0] || 0.1 * (i - j), dy = at[i][1] - at[j][1] || 0.1;
        const push = (length * length) / (dx * dx + dy * dy);
        move[i][0] += dx * push; move[i][1] += dy * push;
        move[j][0] -= dx * push; move[j][1] -= dy * push;
      }
      for (const j of joined[i]) {
        const dx = at[j][0] - at[i][0], dy = at[j][1] - at[i][1], pull = Math.hypot(dx, dy) / length;
        move[i][0] += dx * pull; move[i][1] += dy * pull;
      }
      move[i][0] -= at[i][0] * 0.02; move[i][1] -= at[i][1] * 0.02; // parts that are not joined stay in sight
    }
    const most = 120 * (1 - step / steps) + 1;
    for (let i = 0; i < n; i++) {
      const far = Math.hypot(...move[i]) || 1, by = Math.min(most, far) / far;
      at[i][0] += move[i][0] * by; at[i][1] += move[i][1] * by;
    }
  }
  // As wide as a page and as dense as boxes allow: names are read from further away.
  const high = Math.sqrt(n * (BOX[0] + 30) * (BOX[1] + 50)), goal = [high * 1.7, high * 0.95];
  for (const along of [0, 1]) {
    const all = at.map((one) => one[along]), least = Math.min(...all), wide = Math.max(...all) - least || 1;
    for (const one of at) one[along] = ((one[along] - least) * goal[along]) / wide;
  }
  const sizes = nodes.map(sized);
  for (let step = 0, moved = true; moved && step < 400; step++) {
    moved = false;
    for (let i = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++) {
        const dx = at[j][0] - at[i][0], dy = at[j][1] - at[i][1];
        const x = (sizes[i][0] + sizes[j][0]) / 2 + 24 - Math.abs(dx), y = (sizes[i][1] + sizes[j][1]) / 2 + 34 - Math.abs(dy);
        if (x <= 0 || y <= 0) continue;
        moved = true;
        const along = x < y ? 0 : 1, by = ((along ? y : x) / 2 + 0.5) * ((along ? dy : dx) < 0 ? -1 : 1);
        at[i][along] -= by; at[j][along] += by;
      }
    }
  }
  return at;
}
