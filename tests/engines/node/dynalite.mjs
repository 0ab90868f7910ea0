// dynalite on loopback, at the port that the command line names, without the delays of a table's creation and deletion.
import dynalite from "dynalite";

dynalite({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 }).listen(Number(process.argv[2]), "127.0.0.1");
