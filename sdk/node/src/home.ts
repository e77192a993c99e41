/** Folder of this library's code. The build puts another line here for each kind of modules. */
export const home: string = "";
