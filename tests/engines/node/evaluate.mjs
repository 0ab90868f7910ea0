// The reference engine of JSONata: evaluates each expression of standard input with each set of variables, as Step
// Functions does, and prints the values. An expression that fails or returns nothing has no value.
import { readFileSync } from "node:fs";
import jsonata from "jsonata";

const { expressions, variables, millis } = JSON.parse(readFileSync(0, "utf8"));
const found = [];
for (const text of expressions) {
  const expression = jsonata(text);
  for (const each of variables) {
    try {
      const value = await expression.evaluate(undefined, { ...each, millis: () => millis });
      found.push(value === undefined ? {} : { value });
    } catch {
      found.push({});
    }
  }
}
process.stdout.write(JSON.stringify(found));
