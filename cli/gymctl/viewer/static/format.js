// Numbers for people.

const whole = new Intl.NumberFormat("en");

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

export function reward(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  return Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toExponential(2)
    : String(Number(value.toFixed(3)));
}

export function ratio(value) {
  return value === null || value === undefined ? "–" : value.toFixed(3);
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 s";
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(value % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export const short = (value) => {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return String(value);
  if (value < 999_950) return `${(value / 1000).toFixed(value < 9_950 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(1)}M`;
};

export const words = (name) => name.replaceAll("_", " ");
