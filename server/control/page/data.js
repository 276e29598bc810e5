// The data of a znode: bytes, and the ways to look at them.

const UNPACKED = 1024 * 1024; // bytes of what gzip has packed: more is cut off

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
}

export function toBase64(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += 8192) {
    text += String.fromCharCode(...bytes.subarray(start, start + 8192));
  }
  return btoa(text);
}

/** The text of bytes; null if they are no UTF-8. `cut`: whether the last sign may be cut in two. */
export function asText(bytes, cut = false) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: cut });
  } catch {
    return null;
  }
}

/** JSON, formatted; null if it is none, or only a number or a word. Numbers stay as they were written. */
export function asJson(text) {
  if (text === null || !/^\s*[[{]/.test(text) || !JSON.rawJSON) return null; // old browsers would round numbers
  try {
    return JSON.stringify(JSON.parse(text, (key, value, { source }) => (typeof value === "number" ? JSON.rawJSON(source) : value)), null, 2);
  } catch {
    return null;
  }
}

export function asHex(bytes) {
  const rows = [];
  for (let start = 0; start < bytes.length; start += 16) {
    const row = [...bytes.subarray(start, start + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = `${hex.slice(0, 8).join(" ")}  ${hex.slice(8).join(" ")}`.padEnd(49);
    const text = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    rows.push(`${start.toString(16).padStart(8, "0")}  ${left} ${text}`);
  }
  return rows.join("\n");
}

export const isGzip = (bytes) => bytes.length > 2 && bytes[0] === 0x1f && bytes[1] === 0x8b;

/** Unpack gzip, as far as it goes: what is cut gives its beginning. */
export async function unpacked(bytes) {
  const found = new Uint8Array(UNPACKED);
  let size = 0;
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  try {
    while (size < UNPACKED) {
      const { done, value } = await reader.read();
      if (done) break;
      found.set(value.subarray(0, UNPACKED - size), size);
      size += Math.min(value.length, UNPACKED - size);
    }
  } catch {
    if (!size) return null;
  }
  reader.cancel().catch(() => {});
  return found.subarray(0, size);
}
